// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/body_unpacker.hpp>

#include <gyre/http/detail/characters.hpp>
#include <gyre/http/format_error.hpp>

#include <algorithm>
#include <string_view>

namespace gyre::http::detail {
namespace {

constexpr std::size_t unpacked_at_once = std::size_t{64} << 10;

}  // namespace

std::optional<std::vector<content_coding>> content_codings_of(field_list fields) {
  std::vector<content_coding> codings;
  for (const field& field : fields) {
    if (!equals_lower(field.name, "content-encoding")) continue;
    for (std::string_view list = field.value; !list.empty();) {
      const std::string_view name = trim(take_until(list, ','));
      if (name.empty()) continue;
      const auto coding = content_coding_of(name);
      if (coding == content_coding::identity) continue;
      if (!coding || codings.size() == body_unpacker::max_codings) return std::nullopt;
      codings.push_back(*coding);
    }
  }
  return codings;
}

body_unpacker::body_unpacker(const std::vector<content_coding>& codings, std::uint64_t max_output) {
  stages_.reserve(codings.size());
  for (auto last = codings.rbegin(); last != codings.rend(); ++last) {
    stages_.push_back({.coding = decompressor(*last, {.max_output = max_output})});
  }
}

// Unpacks a part of the input of `target` into `unpacked_bytes`. Returns false if the stage needs
// more input.
std::expected<bool, std::error_code> body_unpacker::unpack(
    stage& target, std::span<const std::byte>& unpacked_bytes) {
  if (target.output.empty()) target.output.resize(unpacked_at_once);
  while (!target.input.empty() || target.has_more) {
    target.has_begun = true;
    const auto step = target.coding.step(target.input, target.output);
    if (!step) return std::unexpected(step.error());
    target.input = target.input.subspan(step->consumed);
    target.has_more = step->produced == target.output.size();
    if (step->produced != 0) {
      unpacked_bytes = std::span(target.output).first(step->produced);
      return true;
    }
    if (step->consumed == 0 && !target.input.empty()) {
      return std::unexpected(make_error_code(format_errc::bad_compression));
    }
  }
  return false;
}

std::expected<std::optional<std::span<const std::byte>>, std::error_code> body_unpacker::take() {
  // Begin at the last stage: step back while a stage lacks input, and forward while one has output.
  for (std::size_t index = stages_.size(); index != 0;) {
    std::span<const std::byte> unpacked_bytes;
    const auto has_output = unpack(stages_[index - 1], unpacked_bytes);
    if (!has_output) return std::unexpected(has_output.error());
    if (!*has_output) {
      --index;
    } else if (index == stages_.size()) {
      return unpacked_bytes;
    } else {
      stages_[index].input = unpacked_bytes;
      ++index;
    }
  }
  return std::nullopt;
}

bool body_unpacker::is_complete() const noexcept {
  return !has_begun_ || std::ranges::all_of(stages_, [](const stage& decoder) {
    return !decoder.has_begun || decoder.coding.is_complete();
  });
}

}  // namespace gyre::http::detail
