"""Stromboli: a batch scheduling system for Kubernetes."""

__version__ = "0.1.0"
