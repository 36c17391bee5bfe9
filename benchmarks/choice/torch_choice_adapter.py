"""torch-choice's fit: dense tensors, L-BFGS on the CPU."""

import sys

import numpy as np
import torch
from adapter import Measured, pairs
from torch_choice.data import ChoiceDataset
from torch_choice.model import ConditionalLogitModel
from torch_choice.utils.std import parameter_std

folder = sys.argv[1]
with Measured(folder) as measured:
    X, choice, there = pairs(folder)
    n, J, P = X.shape
    data = ChoiceDataset(
        item_index=torch.tensor(choice),
        session_index=torch.arange(n),
        itemsession_x=torch.tensor(X),
        item_availability=None if there.all() else torch.tensor(there),
        num_items=J,
    )
    model = ConditionalLogitModel(
        coef_variation_dict={"itemsession_x": "constant"},
        num_param_dict={"itemsession_x": P},
        num_items=J,
    ).double()
    optimiser = torch.optim.LBFGS(
        model.parameters(), max_iter=200, tolerance_grad=1e-9, line_search_fn="strong_wolfe"
    )

    def loss():
        optimiser.zero_grad()
        value = model.negative_log_likelihood(data, data.item_index) / n
        value.backward()
        return value

    optimiser.step(loss)

    def total(model):
        return model.negative_log_likelihood(data, data.item_index)

    errors = parameter_std(model, total)
    coef = next(iter(model.parameters())).detach().numpy().ravel()
    (std,) = [np.asarray(value).ravel() for value in errors.values()]
    measured.found(coef, std, -float(total(model)))
