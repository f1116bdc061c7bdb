// SPDX-License-Identifier: Apache-2.0
// Fuzz target: the texts of JetStream and of NATS' service protocol. Any text is read or refused;
// the fields that were read are written and read again.
#include <tests/fuzz/fuzz.hpp>

#include <gyre/base/detail/base64.hpp>
#include <gyre/engines/nats/detail/api_json.hpp>
#include <gyre/engines/nats/detail/pull_status.hpp>
#include <gyre/engines/nats/detail/service_json.hpp>
#include <gyre/engines/nats/detail/timestamp.hpp>
#include <gyre/engines/nats/message_metadata.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>

namespace {

using gyre::fuzz::require;
using namespace gyre::nats;
using namespace gyre::nats::detail;

// The result of reading a reply, and whether it was none.
template <class Read>
bool is_reply(Read read, std::string_view text) {
  try {
    static_cast<void>(read(text, "fuzz"));
    return true;
  } catch (const std::system_error&) {
    return false;
  }
}

void read_again(std::string_view text) {
  if (!is_reply(read_stream, text)) return;
  const std::string written = write_stream(read_stream(text, "fuzz").config);
  const stream_info again = read_stream(R"({"config":)" + written + "}", "fuzz");
  require(write_stream(again.config) == written);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  gyre::fuzz::decisions decide(data, size);
  const std::size_t kind = decide.below(8);
  const std::string_view text = decide.rest();
  switch (kind) {
    case 0: is_reply(read_publish_ack, text); break;
    case 1: read_again(text); break;
    case 2: is_reply(read_consumer, text); break;
    case 3: is_reply(read_message, text); break;
    case 4: static_cast<void>(read_info_reply(text)); break;
    case 5:
      if (const auto time = parse_timestamp(text)) {
        require(parse_timestamp(format_timestamp(*time)) == time);
      }
      break;
    case 6:
      if (const auto bytes = gyre::detail::decode_base64(text))
        require(bytes->size() <= text.size() / 4 * 3);
      break;
    default:
      static_cast<void>(parse_ack_subject(text));
      static_cast<void>(parse_ack_subject("$JS.ACK." + std::string(text)));
      static_cast<void>(classify_pull_status(409, text));
  }
  return 0;
}
