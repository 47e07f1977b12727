"""Signs of a polished record: how often honest agents raise them, and which manipulations are caught."""
