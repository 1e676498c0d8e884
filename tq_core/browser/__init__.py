"""A real JupyterLab and a real browser, for tests and for measurements of the notebooks.

chromium  where the system's Chromium is
lab       a JupyterLab server that knows nothing of the user's settings
page      Chromium on that server, with a record of errors and of requests to elsewhere
notebook  one notebook in it: run it, look at its outputs, ask its kernel
moves     a panel's sliders moved by keyboard: how long the page takes, what stays behind
"""
