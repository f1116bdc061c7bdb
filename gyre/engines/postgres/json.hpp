// SPDX-License-Identifier: Apache-2.0
// json: a value of PostgreSQL's types json and jsonb, as a text.
#pragma once

#include <string>

namespace gyre::postgres {

/// A text of JSON, which the server checks. jsonb gives it with other blanks, and members in
/// another order, than it was written.
struct json {
  std::string text = "null";

  friend bool operator==(const json&, const json&) noexcept = default;
};

}  // namespace gyre::postgres
