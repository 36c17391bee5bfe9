"""Next item of a shop (Beauty) with a small transformer: plain PyTorch, and a head that samples.

python examples/torch/next_item.py $BIGCAT_DATA/beauty --steps 2000
"""

import torch
from common import PlainHead, curve, options, read_lines, train

from bigcat.torch import CategoricalHead, RowSparseAdam

BATCH, LENGTH, WIDTH = 128, 20, 64


class Network(torch.nn.Module):
    """Transformer over the items before, as a set: the file does not keep their order."""

    def __init__(self, n_items: int, head: torch.nn.Module, sparse: bool) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(n_items + 1, WIDTH, padding_idx=n_items, sparse=sparse)
        torch.nn.init.normal_(self.embedding.weight, std=0.1)
        self.head = head
        self.head.weight = self.embedding.weight  # tied
        layer = torch.nn.TransformerEncoderLayer(WIDTH, 2, 2 * WIDTH, dropout=0.2, batch_first=True)
        self.layers = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, items):
        padding = items == self.embedding.padding_idx
        found = self.layers(self.embedding(items), src_key_padding_mask=padding)
        kept = (~padding).unsqueeze(-1)
        return (found * kept).sum(1) / kept.sum(1)


def read(folder, file):
    """Items before, padded, and the next one."""
    first, *lines = read_lines(folder, file)
    n_items = int(first.split()[1])
    before = torch.full((len(lines), LENGTH), n_items)
    for i, line in enumerate(lines):
        items = [int(word.partition(":")[0]) for word in line.split()[1:]]
        before[i, : len(items)] = torch.tensor(items)
    return before, torch.tensor([int(line.split()[0]) for line in lines]), n_items


def main() -> None:
    args = options(__doc__, "beauty")
    before, after, n_items = read(args.folder, "train.txt.gz")
    test_before, test_after, _ = (part for part in read(args.folder, "test.txt.gz"))
    counts = torch.bincount(after, minlength=n_items + 1)

    def batches():
        while True:
            rows = torch.randint(len(after), (BATCH,))
            yield before[rows], after[rows]

    def evaluate(network):
        return network.head.log_prob(network(test_before[:2000]), test_after[:2000]).mean()

    heads = {
        "plain PyTorch": (PlainHead(WIDTH, n_items + 1), torch.optim.Adam),
        "CategoricalHead": (
            CategoricalHead(WIDTH, n_items + 1, class_counts=counts),
            RowSparseAdam,
        ),
    }
    curves = {}
    for name, (head, optimizer) in heads.items():
        torch.manual_seed(0)
        network = Network(n_items, head, sparse=optimizer is RowSparseAdam)
        optimizers = [optimizer(network.parameters(), lr=1e-3)]
        curves[name] = train(network, optimizers, batches(), evaluate, args.steps, name)
    curve(curves, args.figure)


if __name__ == "__main__":
    main()
