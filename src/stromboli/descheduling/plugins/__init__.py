"""The built-in plugins: Defragmentation, LoadAware, HighNodeUtilization and LowNodeUtilization."""
