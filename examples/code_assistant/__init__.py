"""A code assistant as an ordinary application: files, a shell and git behind tools; people decide.

| module | what |
|---|---|
| `workspace`, `patching` | the folder that tools may work in; what a patch makes of a text |
| `processes` | commands in a process group that dies with the call |
| `workspace_tools`, `shell_tools`, `git_tools` | what a model may do |
| `tokens`, `safety` | secrets by reference; what nobody is shown |
| `assistant`, `declarative` | the assistant written by hand, and the same one declared |
| `reviewer` | the agent it delegates to |
| `application` | all of it put together |
| `chat`, `serving` | at a keyboard; over HTTP, WebSocket and AG-UI |
| `demo/` | the story that `make demo` tells |
"""
