"""The service for many users: a workspace for each tenant, behind HTTP. Only the command ``serve`` imports it."""

from backstory.base.extras import require_extra

require_extra("serve", "The service for many users", "use `backstory ask` and `backstory mcp` instead")
