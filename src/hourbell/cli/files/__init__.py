"""Commands on files of jobs: `apply`, `diff`, `export` and `import`."""
