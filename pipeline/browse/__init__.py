"""A page in the browser through a data set of any size: search it, look at records, mark them."""
