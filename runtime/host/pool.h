// Reusable objects without locks: taken by one launch at a time, made when none is free.
#pragma once

#include <array>
#include <atomic>
#include <memory>

namespace tenon::runtime::host {

template <class T>
class Pool {
 public:
  Pool() = default;
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool() {
    for (auto& slot : slots_) delete slot.load();
  }

  std::unique_ptr<T> take() {
    for (auto& slot : slots_)
      if (slot.load(std::memory_order_relaxed) != nullptr)
        if (T* object = slot.exchange(nullptr, std::memory_order_acquire))
          return std::unique_ptr<T>(object);
    return std::make_unique<T>();
  }

  // Keeps the object for later, or frees it when enough are kept.
  void give(std::unique_ptr<T> object) {
    for (auto& slot : slots_) {
      T* none = nullptr;
      if (slot.compare_exchange_strong(none, object.get(), std::memory_order_release,
                                       std::memory_order_relaxed)) {
        object.release();
        return;
      }
    }
  }

 private:
  std::array<std::atomic<T*>, 32> slots_{};
};

}  // namespace tenon::runtime::host
