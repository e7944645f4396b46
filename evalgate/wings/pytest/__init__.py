"""The gate within a pytest session, and ADK's AgentEvaluator."""
