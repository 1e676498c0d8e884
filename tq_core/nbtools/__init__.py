"""Tools for the committed notebooks: run them top to bottom, and keep their files byte-stable."""
