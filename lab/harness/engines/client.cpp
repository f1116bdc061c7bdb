// SPDX-License-Identifier: Apache-2.0
#include <lab/harness/engines/client.hpp>

#include <csignal>
#include <utility>

namespace lab::engines {

int client_main(int argc, const char* const* argv, libraries versions, arguments& options,
                load_plan& plan, const std::function<void(const harness_options&, report&)>& run) {
  std::signal(SIGPIPE, SIG_IGN);  // not all contenders write with MSG_NOSIGNAL
  options.number("duration-ms", plan.duration_ms, "milliseconds that are measured", 1, 3'600'000);
  return contender_main(argc, argv, this_contender(std::move(versions)), options, run);
}

}  // namespace lab::engines
