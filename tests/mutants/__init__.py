"""Small errors, put into the package on purpose: does a test notice each of them?"""
