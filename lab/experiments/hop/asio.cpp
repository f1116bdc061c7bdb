// SPDX-License-Identifier: Apache-2.0
// boost::asio: loops that sleep as soon as they have nothing to do.
#include <lab/experiments/hop/asio_loop.hpp>
#include <lab/experiments/hop/workload.hpp>
#include <lab/harness/boost_version.hpp>

int main(int argc, char** argv) {
  using namespace lab::hop;
  return contender_main<asio_loop>(argc, argv, {lab::boost_version()});
}
