"""Tests, in the same rooms as the product, with the laws, the crash matrix and the benches beside them."""
