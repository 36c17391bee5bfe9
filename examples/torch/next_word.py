"""Next word on Penn Treebank with a recurrent network: plain PyTorch, and a head that samples.

python examples/torch/next_word.py $BIGCAT_DATA/ptb --steps 2000
"""

import torch
from common import PlainHead, curve, options, read_lines, train

from bigcat.torch import CategoricalHead, RowSparseAdagrad

BATCH, LENGTH, WIDTH = 20, 35, 128


class Network(torch.nn.Module):
    """Embedding, GRU, and the output layer."""

    def __init__(self, n_words: int, head: torch.nn.Module) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(n_words, WIDTH)
        self.gru = torch.nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.head = head

    def forward(self, words):
        return self.gru(self.embedding(words))[0]


def main() -> None:
    args = options(__doc__, "ptb")
    lines = [[*line.split(), "<eos>"] for line in read_lines(args.folder, "train.txt.gz")]
    numbers = {w: i for i, w in enumerate(dict.fromkeys(w for line in lines for w in line))}
    words = torch.tensor([numbers[w] for line in lines for w in line])
    test = [numbers.get(w, 0) for line in read_lines(args.folder, "valid.txt.gz")
            for w in [*line.split(), "<eos>"]]  # fmt: skip
    held_out = torch.tensor(test[: len(test) // LENGTH * LENGTH + 1])
    counts = torch.bincount(words, minlength=len(numbers))

    def batches():
        while True:
            start = torch.randint(len(words) - LENGTH - 1, (BATCH, 1))
            part = words[start + torch.arange(LENGTH + 1)]
            yield part[:, :-1], part[:, 1:]

    def evaluate(network):
        hidden = network(held_out[:-1].reshape(-1, LENGTH)[:300])
        return network.head.log_prob(hidden, held_out[1:].reshape(-1, LENGTH)[:300]).mean()

    heads = {
        "plain PyTorch": PlainHead(WIDTH, len(numbers)),
        "CategoricalHead": CategoricalHead(WIDTH, len(numbers), class_counts=counts),
    }
    curves = {}
    for name, head in heads.items():
        torch.manual_seed(0)
        network = Network(len(numbers), head)
        optimizers = [
            torch.optim.Adam([*network.embedding.parameters(), *network.gru.parameters()], lr=2e-3),
            torch.optim.Adam(head.parameters(), lr=2e-3)
            if name == "plain PyTorch"
            else RowSparseAdagrad(head.parameters(), lr=0.1),
        ]
        curves[name] = train(network, optimizers, batches(), evaluate, args.steps, name)
    curve(curves, args.figure)


if __name__ == "__main__":
    main()
