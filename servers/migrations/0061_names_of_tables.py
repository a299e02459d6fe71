from django.db import migrations

NAMES = (
    ("Boot", "Reboot"),
    ("Delivery", "Notification"),
    ("Entry", "AuditEntry"),
    ("Exchange", "CapturedCall"),
    ("Likeness", "ProfileImport"),
    ("Message", "ChatMessage"),
    ("Neighbours", "OtherWorkloads"),
    ("OldPort", "LegacyPort"),
    ("Outlet", "NotificationChannel"),
    ("RegistryLogin", "RegistryCredential"),
    ("Round", "PromptRun"),
    ("RoundAnswer", "PromptAnswer"),
    ("Shelf", "ImageInventory"),
    ("Sighting", "ExternalEngine"),
    ("Stock", "ModelInventory"),
    ("Supplies", "HostResources"),
    ("Use", "ActiveUser"),
)


class Migration(migrations.Migration):
    dependencies = [("servers", "0060_likeness_identity")]
    operations = [migrations.RenameModel(old, new) for old, new in NAMES]
