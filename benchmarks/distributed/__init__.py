"""What a cluster costs and gives: ``python -m benchmarks.distributed`` lists the measurements."""
