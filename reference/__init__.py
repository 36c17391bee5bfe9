"""Reference implementation of every method in plain NumPy, which tests compare against.

It is the shortest introduction to the methods: not fast, independent of the library, one idea per
file. In reading order:

    noise.py               distributions of the noise e in y = argmax_k psi_k + e_k
    probabilities.py       the class probabilities that follow, by quadrature
    bounds.py              lower bounds on log p(y) that are sums over classes, with their gradients
    double_sum.py          the softmax's bound in u = log eta: vanilla, U-max and implicit steps
    estimators.py          estimators of log p(y) that are not bounds
    samplers.py            the classes that a step visits
    solvers.py             update rules of the weights
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
