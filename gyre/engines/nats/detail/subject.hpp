// SPDX-License-Identifier: Apache-2.0
// Rules of subjects and names of queue groups of NATS.
#pragma once

#include <string_view>

namespace gyre::nats::detail {

/// Throws std::system_error (errc::bad_subject) unless `subject` may be published to: tokens with
/// '.' between them, none of them empty or a wildcard, without blanks and control characters, of at
/// most 2 KiB.
void check_subject(std::string_view subject);
/// Checks a subject to subscribe to: "*" may stand for a token, and ">" for the last ones.
void check_pattern(std::string_view subject);
/// Checks the name of a queue group, which has no rules of tokens.
void check_queue_group(std::string_view name);

}  // namespace gyre::nats::detail
