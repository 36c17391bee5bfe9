"""Word vectors: identifiers of Python's standard library that come after the same tokens.

A model of low rank gives every identifier and every token before it a vector. Its scores are not
linear in both, so implicit SGD cannot fit the two at once: it fits the identifiers' vectors while
those of the tokens are held, where each row of tokens is a dense row to it.
"""

import numpy as np

from bigcat import LinearClassifier, data, metrics
from bigcat.samplers import Shared
from bigcat.solvers import AdaGrad, Implicit

WORDS = ("int", "ValueError", "assertEqual", "path", "min", "start", "os")


def print_neighbours(vectors, names):
    """The words whose vectors point the same way, once what all have in common is taken out."""
    vectors = vectors - vectors.mean(axis=0)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    for word in np.intersect1d(WORDS, names):
        nearest = np.argsort(-(vectors @ vectors[np.searchsorted(names, word)]))[1:6]
        print(f"  {word:12} {', '.join(names[nearest])}")


corpus = data.stdlib_corpus(max_rows=200_000, max_features=6_000, min_count=20, min_classes=500)
train, test = corpus.train, corpus.test
print(f"{len(train):,} rows, {corpus.report['classes']:,} identifiers")
print(f"class frequencies   {metrics.class_frequency_baseline(train.y, test.y):.3f}")

model = LinearClassifier(
    method="one-vs-each",
    rank=64,
    sampler=Shared(256),  # the same classes for all rows of a batch: products of matrices
    max_epochs=3,
    random_state=0,
    solver=AdaGrad(learning_rate=0.05),
).fit(train.X, train.y)
print(f"one-vs-each         {metrics.log_likelihood(model, test.X, test.y):.3f}")
print_neighbours(model.class_embedding_, model.classes_)

tokens, test_tokens = train.X @ model.embedding_, test.X @ model.embedding_
size = np.sqrt((tokens**2).sum(axis=1).mean())  # step sizes suit rows of about unit length
again = LinearClassifier(
    method="implicit",
    solver=Implicit(learning_rate=0.5, decay=0.5),
    max_epochs=4,
    random_state=0,
).fit(tokens / size, train.y)
print(f"implicit SGD        {metrics.log_likelihood(again, test_tokens / size, test.y):.3f}")
print_neighbours(again.coef_, again.classes_)
