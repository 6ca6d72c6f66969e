"""A shop: orders, payments and inventory, joined into what its people and customers look at."""
