"""Settings of a workspace: the models, the YAML file, the environment, the template of a new workspace."""

from backstory.settings.models import (
    SETTINGS_FILE,
    ChunkSettings,
    ContextSettings,
    ConversationSettings,
    DocumentSettings,
    EmbeddingSettings,
    IndexSettings,
    OrchestrationSettings,
    PartitionSettings,
    PrivacySettings,
    QuerySettings,
    RAGSettings,
    RerankSettings,
    Settings,
    SettingsGroup,
    WindowSettings,
)

__all__ = [
    "SETTINGS_FILE",
    "ChunkSettings",
    "ContextSettings",
    "ConversationSettings",
    "DocumentSettings",
    "EmbeddingSettings",
    "IndexSettings",
    "OrchestrationSettings",
    "PartitionSettings",
    "PrivacySettings",
    "QuerySettings",
    "RAGSettings",
    "RerankSettings",
    "Settings",
    "SettingsGroup",
    "WindowSettings",
]
