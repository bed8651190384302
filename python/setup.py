"""The wheel of the package: pure Python beside one shared library, for every Python from 3.9 on
(scripts/wheel.sh puts the library into tenon/_lib and calls this)."""
import os

from setuptools import Distribution, setup
from wheel.bdist_wheel import bdist_wheel


class PlatformWheel(bdist_wheel):
    """py3-none-<platform>: no extension module, but a library of this platform."""

    def finalize_options(self):
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


class WithLibrary(Distribution):
    def has_ext_modules(self):
        return True


setup(
    name="tenon-runtime",
    version=os.environ.get("TENON_VERSION", "0.0.0"),
    description="Tenon's runtime: tuned kernels for normalization + linear layers, for numpy and PyTorch",
    python_requires=">=3.9",
    packages=["tenon", "tenon.torch"],
    package_data={"tenon": ["py.typed", "_lib/*"]},
    cmdclass={"bdist_wheel": PlatformWheel},
    distclass=WithLibrary,
)
