"""Settings of a workspace: the models, the YAML file, the environment, the template of a new workspace."""

from backstory.settings.chunks import ChunkSettings
from backstory.settings.costs import BudgetSettings, CostSettings, ModelPrice, RunSettings
from backstory.settings.embedding import EmbeddingSettings
from backstory.settings.group import SettingsGroup
from backstory.settings.inputs import ConversationSettings, DocumentSettings
from backstory.settings.models import (
    SETTINGS_FILE,
    AgentSettings,
    ContextSettings,
    IndexSettings,
    OrchestrationSettings,
    PartitionSettings,
    PrivacySettings,
    QuerySettings,
    RAGSettings,
    RerankSettings,
    Settings,
    WindowSettings,
)
from backstory.settings.sources import SourceSettings
from backstory.settings.summaries import SummarySettings
from backstory.settings.writers import WriterSettings

__all__ = [
    "SETTINGS_FILE",
    "AgentSettings",
    "BudgetSettings",
    "ChunkSettings",
    "ContextSettings",
    "ConversationSettings",
    "CostSettings",
    "DocumentSettings",
    "EmbeddingSettings",
    "IndexSettings",
    "ModelPrice",
    "OrchestrationSettings",
    "PartitionSettings",
    "PrivacySettings",
    "QuerySettings",
    "RAGSettings",
    "RerankSettings",
    "RunSettings",
    "Settings",
    "SettingsGroup",
    "SourceSettings",
    "SummarySettings",
    "WindowSettings",
    "WriterSettings",
]
