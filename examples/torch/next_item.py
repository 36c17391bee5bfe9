"""Next item of a shop (Beauty) with a small transformer: every item, or a few per step.

python examples/torch/next_item.py $BIGCAT_DATA/beauty --steps 2000
"""

import torch
from common import curve, options, read_lines, train

from bigcat.torch import CategoricalHead, RowSparseAdam

BATCH, LENGTH, WIDTH = 128, 20, 64


class Network(torch.nn.Module):
    """Items before as a set: the file does not keep their order.  Output weights are tied."""

    def __init__(self, n_items: int, method: str, counts: torch.Tensor) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(n_items + 1, WIDTH, padding_idx=n_items)
        torch.nn.init.normal_(self.embedding.weight, std=0.1)
        layer = torch.nn.TransformerEncoderLayer(WIDTH, 2, 2 * WIDTH, dropout=0.2, batch_first=True)
        self.layers = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = CategoricalHead(
            WIDTH, n_items + 1, weight=self.embedding.weight, method=method, class_counts=counts
        )

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

    curves = {}
    for method, optimizer in (("exact", torch.optim.Adam), ("complementary", RowSparseAdam)):
        torch.manual_seed(0)
        network = Network(n_items, method, counts)
        update = optimizer(network.parameters(), lr=1e-3)
        curves[method] = train(network, update, batches(), evaluate, args.steps, method)
    curve(curves, args.figure)


if __name__ == "__main__":
    main()
