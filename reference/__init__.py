"""Every method in plain NumPy: the shortest way to read the project, and the tests' oracle.

Nothing here is fast and nothing here imports the library. One idea a file, in reading order:

    noise.py               y = argmax_k psi_k + e_k: which distribution e has
    probabilities.py       the class probabilities that follow, by quadrature
    bounds.py              lower bounds on log p(y) that are sums over classes, with their slopes
    double_sum.py          the softmax's bound in u = log eta: vanilla, U-max and implicit steps
    estimators.py          what other methods optimise: estimators of log p(y) that are no bounds
    samplers.py            which classes a step looks at
    solvers.py             how the weights move
    train.py               Algorithms 1 and 2 of augment and reduce, and one-vs-each, as plain loops
    categorical.py         the same without covariates: K numbers and K counts
    independent_binary.py  K binary regressions with posteriors, and one probability from K
    weight_posterior.py    augment and reduce with a Gaussian posterior over the weights
    laplace.py             the posterior around its mode, and a chain that corrects it

The papers, as the docstrings cite them:

    A&R  Ruiz, Titsias, Dieng and Blei (2018), Augment and Reduce: Stochastic Inference for Large
         Categorical Distributions
    OVE  Titsias (2016), One-vs-Each Approximation to Softmax for Scalable Estimation of
         Probabilities
    F&I  Fagan and Iyengar (2018), Unbiased Scalable Softmax Optimization
    Wojnowicz et al. (2022), Easy Variational Inference for Categorical Models via an Independent
         Binary Approximation
"""
