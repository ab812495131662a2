"""Libraries on disk: records, recipes and files, the loader, and what combines and cuts them."""
