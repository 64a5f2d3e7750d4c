"""Servers that speak the OpenAI chat protocol: vLLM, SGLang, llama-server, LM Studio, and the hosted ones."""
