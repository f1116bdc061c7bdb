// SPDX-License-Identifier: Apache-2.0
// Rules of the names of buckets and keys, and the subjects and headers that stand for them.
#pragma once

#include <gyre/engines/nats/headers.hpp>
#include <gyre/engines/nats/key_value_entry.hpp>

#include <string>
#include <string_view>

namespace gyre::nats::detail {

/// These functions throw std::invalid_argument for invalid names.
void check_bucket(std::string_view bucket);
void check_key(std::string_view key);
/// Checks a pattern as check_key() does, but "*" may stand for a token, and ">" for those at the
/// end.
void check_key_pattern(std::string_view pattern);

std::string stream_of_bucket(std::string_view bucket);
/// The beginning of the subjects of a bucket's keys.
std::string key_prefix(std::string_view bucket);
key_value_operation operation_of(header_view headers) noexcept;

}  // namespace gyre::nats::detail
