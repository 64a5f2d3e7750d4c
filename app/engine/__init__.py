"""The inference engine: dense Qwen2, Qwen3 and Llama networks from GGUF files, in this process."""
