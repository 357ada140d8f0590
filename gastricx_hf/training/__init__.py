"""Fine-tuning with the paper's recipe through Trainer, Accelerate and PEFT."""
