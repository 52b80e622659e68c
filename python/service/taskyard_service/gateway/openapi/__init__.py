"""The OpenAPI 3.1 document of what a gateway serves, made from descriptors and the comments of the contract."""
