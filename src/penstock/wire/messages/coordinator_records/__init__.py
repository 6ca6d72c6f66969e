"""Records of coordinators, by what they are about; `key` is the number of the record type.

Keys have one version only; it is values that grew.
"""
