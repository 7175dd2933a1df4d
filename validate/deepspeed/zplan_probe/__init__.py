"""The parts of validate/deepspeed/probe.py: one short fine-tune in DeepSpeed itself, measured phase by phase."""
