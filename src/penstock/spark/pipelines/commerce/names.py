"""The topics of the shop, by what they hold. Pure; `topology.toml` says how they are made."""

ORDERS = "commerce.orders"
PAYMENTS = "commerce.payments"
INVENTORY = "commerce.inventory"

FULFILMENT = "commerce.fulfilment"
ANALYTICS = "commerce.analytics"
NOTIFICATIONS = "commerce.notifications"
LEDGER = "commerce.ledger"
ORDER_VIEW = "commerce.order-view"
REVENUE = "commerce.revenue"
STOCK_LEVELS = "commerce.stock-levels"
STOCK_ALERTS = "commerce.stock-alerts"
DEAD_LETTERS = "commerce.dead-letters"

STOCK_TABLE = "commerce_stock"
