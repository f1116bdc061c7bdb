// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/inspect_at.hpp>

#include <gyre/metrics/registry.hpp>

#include <memory>
#include <utility>

namespace gyre::http {
namespace {

class started_inspector final : public metrics::inspection {
 public:
  started_inspector(const metrics::registry& source, const net::endpoint& address,
                    inspector_options options, move_only_function<void(inspector&)>& prepare)
      : inspector_(source, address, options) {
    if (prepare) prepare(inspector_);
    inspector_.start();
  }

 private:
  inspector inspector_;
};

}  // namespace

metrics::inspection_factory inspect_at(net::endpoint address, inspector_options options,
                                       move_only_function<void(inspector&)> prepare) {
  return [address = std::move(address), options,
          prepare = std::move(prepare)](const metrics::registry& source) mutable {
    return std::unique_ptr<metrics::inspection>(
        std::make_unique<started_inspector>(source, address, options, prepare));
  };
}

}  // namespace gyre::http
