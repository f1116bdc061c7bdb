# SPDX-License-Identifier: Apache-2.0
"""The lab: measures each part of gyre beside its peers in the same run, and reports the results."""
