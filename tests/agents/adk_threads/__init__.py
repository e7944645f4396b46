from adk_threads import agent
