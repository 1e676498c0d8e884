"""How fast a panel answers a slider in a real JupyterLab, and what a thousand moves leave behind."""
