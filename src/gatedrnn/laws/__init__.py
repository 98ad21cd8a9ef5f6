"""The laws of any recurrent module: however the same sequences are fed to it, the results are the same.

This package imports torch and itself alone, so that it could be installed without the rest.
"""
