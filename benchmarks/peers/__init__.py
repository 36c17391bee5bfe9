"""Side by side with other libraries: problems, peers and our methods from one configuration.

``campaign.toml`` says what there is to run. A problem becomes matrices in ``benchmarks/.cache``;
a peer is an adapter that runs in a virtual environment of its own and reads them; a result is a
JSON file under ``benchmarks/results/peers``, written as soon as it is known. docs/benchmarks.md
has the protocol.
"""
