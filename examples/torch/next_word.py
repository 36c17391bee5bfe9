"""Next word on Penn Treebank with a recurrent network: every class, or a few per step.

python examples/torch/next_word.py $BIGCAT_DATA/ptb --steps 2000
"""

import torch
from common import curve, options, read_lines, train

from bigcat.torch import CategoricalHead, RowSparseAdam

BATCH, LENGTH, WIDTH = 20, 35, 128


class Network(torch.nn.Module):
    """Embedding, GRU, and the output layer."""

    def __init__(self, n_words: int, head: CategoricalHead) -> None:
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

    curves = {}
    for method, optimizer in (("exact", torch.optim.Adam), ("complementary", RowSparseAdam)):
        torch.manual_seed(0)
        head = CategoricalHead(WIDTH, len(numbers), method=method, class_counts=counts)
        network = Network(len(numbers), head)
        update = optimizer(network.parameters(), lr=2e-3)
        curves[method] = train(network, update, batches(), evaluate, args.steps, method)
    curve(curves, args.figure)


if __name__ == "__main__":
    main()
