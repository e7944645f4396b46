"""The desk assistant of Fernhill Library: an ordinary ADK agent package."""

from . import agent as agent
