"""Every bound that is not a setting. A full queue refuses; it does not grow.

Bounds that operators tune live in `model/settings`; these protect the process from its peers and
from itself.
"""

KIB = 1024
MIB = 1024 * KIB

# Frames and messages
FRAME_HEADER_BYTES = 4
# Elements of one array in a message; each must also fit into the bytes that follow.
ARRAY_LENGTH_MAX = 1_000_000
# Elements of all arrays of a request together: ten times what the fetch of 10,000 partitions has.
# Answering one costs microseconds that all other clients wait for.
REQUEST_ENTRIES_MAX = 100_000
TAGGED_FIELDS_MAX = 1000  # of a header or a struct; those of requests count as entries too
TURN_MS_MAX = 10  # of requests that came together: then those of other connections come first
ENTRIES_PER_TURN = 500  # of a long answer: some milliseconds, then others get their turn
# Long answers that a node works on at once, and as many long fetches: a second one, so that one of
# very many entries does not hold all others up. Each takes a turn in every round of the loop.
LONG_ANSWERS_AT_ONCE = 2
CLIENT_ID_BYTES_MAX = 32 * KIB

# Connections
RECEIVE_BUFFER_BYTES = 64 * KIB  # of an idle connection; grows to one request and shrinks again
REQUESTS_IN_FLIGHT_MAX = 128  # per connection: beyond it the connection is not read
CONNECTION_BACKLOG = 1024
REQUEST_BYTES_HELD_MAX = 256 * MIB  # by all connections together, beyond their idle buffers
# While others wait for that memory: in this time a request has to come in, or double its size.
REQUEST_STALLED_MS = 30_000
UNSENT_REPLY_BYTES_MAX = 1 * MIB  # per connection: beyond it the connection is not read
UNSENT_BYTES_HELD_MAX = 256 * MIB  # by all connections beyond that: then one of them is closed
# SO_SNDBUF of a connection that large ranges of files are sent to, so that the kernel takes a whole
# reply at once. What it holds then are pages of its cache, and no memory of ours.
FILE_SEND_BUFFER_BYTES = 4 * MIB
UNANSWERED_BYTES_MAX = 8 * MIB  # of requests that wait for their answer, per connection: likewise
AUTHENTICATION_MS_MAX = 10_000  # from the first byte of a log-in to its end
AUTHENTICATION_REQUESTS_MAX = 32  # of one log-in, those for the versions served included
AUTHENTICATION_BYTES_UNCOUNTED = 4096  # of a request of a log-in: enough for names and passwords
AUTHENTICATION_PIECE_BYTES = 16 * 1024  # of a larger one, counted before they are read
UNAUTHENTICATED_BYTES_HELD_MAX = 32 * MIB  # of those, by all who are not logged in yet
STOP_WAIT_MS_MAX = 1000  # how long a stopping node lets the requests under way finish

# Records
BATCH_BYTES_MIN = 61  # the header of a v2 batch
DECOMPRESSED_BYTES_MAX = 64 * MIB  # of one batch; a bomb is refused before it is held
# Compressed blocks of one produced batch: so many, and one more for each so many of its bytes. Each
# costs microseconds for which all other clients wait. Clients fill blocks of 32 KiB (snappy) and of
# 64 KiB or more (lz4), which take more bytes than that however well they compress.
BATCH_BLOCKS_MAX = 1024
BLOCK_BYTES_MIN = 256
RECORD_ERRORS_MAX = 1000  # of one batch that a produce reply lists
REMEMBERED_BATCHES = 5  # per idempotent producer and partition

# Fetching
FETCH_SESSIONS_MAX = 1000
FETCH_PARTITIONS_MAX = 100_000

# Metadata
DECISION_RECORDS_MAX = 10_000  # of one batch, and of what a client asks for: Apache Kafka's bounds
DECISION_BYTES_MAX = 8 * MIB
FRAMED_RECORDS_MAX = 1_000_000  # of a decision in several batches: a change of so many partitions
SNAPSHOT_LOG_BYTES_MIN = 32 * KIB  # of the metadata log since a snapshot, before the next one
SNAPSHOTS_KEPT = 2  # of the metadata: the latest, and one in case it is damaged
SNAPSHOT_BATCH_RECORDS = 200  # encoded in one step: some milliseconds
DESCRIBED_SETTINGS_MAX = 200_000  # in one reply: those of 5,000 topics
HELD_REPLIES_MAX = 10_000  # decided and waiting for the watermark, per state machine
TOPIC_NAME_LENGTH_MAX = 249
PRODUCER_ID_BLOCK = 1000

# Security
REMEMBERED_DECISIONS_MAX = 100_000  # of an authorizer: beyond it all of them are forgotten
REMEMBERED_NAME_MAX = 256  # characters; decisions about longer names are not remembered
DELEGATION_TOKENS_MAX = 10_000  # of a cluster
DELEGATION_TOKENS_OF_OWNER_MAX = 1000  # so that no user takes all of them
DELEGATION_TOKEN_RENEWERS_MAX = 100
TOKEN_CREDENTIALS_KEPT_MAX = 1000  # of a listener, for tokens that were used

# Nodes on one machine
LAID_OUT_NODES_MAX = 50
LAID_OUT_VOTERS_MAX = 5

# Groups
NEW_MEMBER_JOIN_MS_MAX = 300_000  # how long the first join of a classic member may be parked
HANDSHAKE_MS_MAX = 100  # how long a first generation waits for members that were just given ids
# Ids given out to one group whose owners have not come back with them, and how long they wait; a
# client comes back at once. Beyond it the oldest id is forgotten, and its owner asks for another.
PENDING_MEMBERS_MAX = 2000
PENDING_MEMBER_MS_MAX = 60_000
# So long does a commit of offsets wait for its coordinator to load: less than the shortest session
# (group.min.session.timeout.ms), since replies to heartbeats that came behind it wait with it.
LOAD_WAIT_MS_MAX = 3_000
# Of a classic group, whatever the setting allows: each join costs as much as the group is large.
CLASSIC_GROUP_MEMBERS_MAX = 5000
# Assignors of one member; clients have two to four. Of a group also all that its members bring for
# them, names included: several times what a decision could store of the one that is chosen.
CLASSIC_PROTOCOLS_MAX = 100
CLASSIC_PROTOCOLS_BYTES_MAX = 4 * DECISION_BYTES_MAX
# Of a client's or an instance's id, at the front of a member id that is made from it.
MEMBER_ID_PREFIX_LENGTH_MAX = 255
# With so many members a change of all of them fits into one decision, also when the group becomes
# one of the other protocol.
CONSUMER_GROUP_MEMBERS_MAX = 2000
# Topics that members of the consumer protocol subscribe to by name. Those of a group are counted
# for each member: a member that changes costs the group's coordinator as much as they are many.
SUBSCRIBED_NAMES_OF_MEMBER_MAX = 10_000
SUBSCRIBED_NAMES_OF_GROUP_MAX = 500_000
EXPIRY_ENTRIES_PER_STEP = 5000  # groups and offsets looked at before others get their turn

# Regular expressions over topic names and transactional ids
REGEX_DEPTH_MAX = 100  # parentheses within parentheses
REGEX_NODES_MAX = 20_000  # of its automaton: a thousand topic names joined by |
REGEX_STATES_MAX = 1000  # remembered by one expression
REGEX_CHARACTERS_MAX = 1000  # remembered by one state; names of topics have 65
REGEX_STEPS_MAX = 400_000  # to match all names: a tenth of a second or so, then it is refused
GROUP_REGEXES_MAX = 100  # different ones of the members of a group

# Transactions
TRANSACTIONAL_IDS_PER_STEP = 1000  # looked at before others get their turn
MARKERS_PER_REQUEST_MAX = 10_000  # to one node; more are sent in the next request
# Questions to one other node whether partitions are in a transaction: in a request, and waiting.
ENLISTMENTS_PER_REQUEST_MAX = 1000
ENLISTMENTS_WAITING_MAX = 10_000

# TLS
TLS_HANDSHAKE_MS_MAX = 10_000
TLS_REFUSED_MS_MAX = 1000  # until a peer that was refused has read why and closed
TLS_REFUSED_BYTES_MAX = 256 * KIB  # that it may send meanwhile

# Files
OPEN_FILES_MAX = 512  # segments kept open at once, whatever the number of partitions
# Descriptors that connections leave to files: those above, and some for files that come and go.
DESCRIPTORS_KEPT = OPEN_FILES_MAX + 64
# Indexes of sealed segments held in memory; the least used ones go.
LOADED_INDEX_BYTES_MAX = 64 * MIB

# The quorum
EPOCHS_AHEAD_MAX = 1_000_000  # of the quorum, by which a request may be ahead of this replica
ELECTIONS_AT_ONCE_MAX = 1000  # of preferred leaders, in one decision of the controller itself
QUORUM_OBSERVERS_MAX = 10_000  # that a leader keeps the ends of
METADATA_FETCH_BYTES_MAX = 8 * MIB  # of the metadata log or a snapshot, in one reply

# Metrics
METRICS_REQUEST_BYTES_MAX = 8 * KIB  # of a scrape; real ones have some hundred
METRICS_REQUEST_MS_MAX = 5_000  # from a connection to the end of its request
METRICS_ANSWER_MS_MAX = 30_000  # from then on to its end: that of a client that reads slowly
METRICS_CONNECTIONS_MAX = 16
METRICS_STEPS_PER_TURN = 200  # of a scrape: then others get their turn
METRICS_TURN_US = 1_000  # the same for steps that take long
METRICS_LAGS_MAX = 10_000  # partitions of groups whose lag is told
METRICS_LAG_AGES_MAX = 1_000  # of those with a lag in seconds: each may cost a read from a file

# Alerts
ALERTS_TRACKED_MAX = 1_000  # of one rule at one node, pending or firing: one for each subject
ALERTS_RESTART_MS = 5_000  # after a fault of ours in what evaluates or tells them
ALERT_REPORTS_WAITING_MAX = 10_000  # for the topic, and for the webhook
ALERT_TOPIC_MS_MAX = 10_000  # for one attempt to read it, or to write what waits
ALERT_TOPIC_RETRY_MS = 5_000
LAGS_ELSEWHERE_MAX = 1_000  # partitions whose leaders are asked at one time about lags
LAGS_READ_MAX = 20  # of those, read for the time of what a group has not read
LAGS_ELSEWHERE_MS_MAX = 10_000  # for all answers
ALERT_WEBHOOK_MS_MAX = 5_000  # for one request
ALERT_WEBHOOK_TRIES_MAX = 5
ALERT_WEBHOOK_BACKOFF_MS = 500  # after the first failed try; doubled after each further one
ALERT_WEBHOOK_AGAIN_MS = 60_000  # until what was not taken then is sent again

# Traces
TRACING_SPANS_WAITING_MAX = 8_192  # to be exported; those beyond are dropped, and counted
TRACING_SPANS_PER_EXPORT_MAX = 512
TRACING_EXPORT_INTERVAL_MS = 1_000
TRACING_EXPORT_MS_MAX = 5_000  # for one export, with its retries
TRACING_FLUSH_MS_MAX = 2_000  # for what waits when the node stops

# Metrics that clients push
TELEMETRY_INSTANCES_MAX = 16_384  # clients whose subscriptions are known, as in Apache Kafka
TELEMETRY_SUBSCRIPTIONS_MAX = 100  # each is matched with each client; others are left out
TELEMETRY_PREFIXES_MAX = 200  # names, or beginnings of names, that one client is asked for
TELEMETRY_INSTANCE_MS_MIN = 60_000  # a silent client is forgotten after it, or three intervals
TELEMETRY_SERIES_MAX = 20_000  # of all clients
TELEMETRY_SERIES_PER_CLIENT_MAX = 1_000
TELEMETRY_PATTERN_NODES_MAX = 1_000  # of an expression that says which clients push
TELEMETRY_PATTERN_STEPS_MAX = 10_000  # to match a client with a subscription: some milliseconds
TELEMETRY_SERIES_BYTES_MAX = 1_024  # name and labels of one series, without those of its client
TELEMETRY_BYTES_MAX = 8 << 20  # names and labels of all series, with those of their clients
TELEMETRY_ATTRIBUTES_MAX = 8  # of one value, and as many of its resource
TELEMETRY_EXPIRE_MS = 5_000  # pushes look for silent clients so often
TELEMETRY_TEXT_CHARS_MAX = 200  # of a name, a label or what is matched; the last two are cut
