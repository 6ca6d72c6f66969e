"""Records of the metadata log (KRaft), by what they are about; `key` is the number of the record
type.
"""
