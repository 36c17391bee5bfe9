"""A probit layer beside the softmax: labels with Gaussian noise, 1,000 classes.

python examples/torch/probit.py --steps 1000
"""

import torch
from common import PlainHead, curve, options, train

from bigcat.torch import CategoricalHead, RowSparseAdam

N_CLASSES, WIDTH, BATCH = 1_000, 8, 200


class Network(torch.nn.Module):
    """Features as they are, and the output layer."""

    def __init__(self, head: torch.nn.Module) -> None:
        super().__init__()
        self.head = head

    def forward(self, rows):
        return rows


def main() -> None:
    args = options(__doc__)
    torch.manual_seed(0)
    weight = torch.randn(N_CLASSES, WIDTH)

    def batches():
        while True:
            rows = torch.randn(BATCH, WIDTH)
            yield rows, (rows @ weight.T + torch.randn(BATCH, N_CLASSES)).argmax(1)

    held_out = next(batches())

    def evaluate(network):
        return network.head.log_prob(*held_out).mean()

    heads = {
        "plain softmax": PlainHead(WIDTH, N_CLASSES),
        "softmax": CategoricalHead(WIDTH, N_CLASSES, method="complementary", n_negatives=100),
        "probit": CategoricalHead(
            WIDTH, N_CLASSES, noise="gaussian", method="augment-reduce", n_negatives=100
        ),
    }
    curves = {}
    for name, head in heads.items():
        network = Network(head)
        optimizer = torch.optim.Adam if name == "plain softmax" else RowSparseAdam
        optimizers = [optimizer(network.parameters(), lr=0.03)]
        curves[name] = train(network, optimizers, batches(), evaluate, args.steps, name)
    curve(curves, args.figure)


if __name__ == "__main__":
    main()
