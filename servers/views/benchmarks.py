"""Pages of check-ups: started on a server's tab, watched, listed, compared, exported."""

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse

from servers.contexts import benchmarks as results
from servers.contexts.benchmark_history import describe_history
from servers.judge.benchmarks.capacity import CapacityLimits
from servers.launch import numbers
from servers.lifecycle.benchmarks import commands, export
from servers.lifecycle.benchmarks.commands import BenchmarkRequestError
from servers.models import Benchmark, Permission, Profile, Server
from servers.views.access import PersonRequest, get, post
from servers.views.responses import respond_done, respond_text

LONGEST_CHOICE = 100  # results in a list, all of which may be ticked


@post("servers/<slug:slug>/check-up/start/", Permission.OPERATE)
def server_checkup_start(request: PersonRequest, slug: str) -> HttpResponse:
    server = get_object_or_404(Server.objects.with_details(), slug=slug)
    try:
        made = commands.ask(
            server,
            request.POST.get("preset", "")[:40],
            by=request.user,
            gives_way="insists" not in request.POST,
        )
    except BenchmarkRequestError as error:
        messages.error(request, str(error))
        return redirect("server_checkup", slug)
    return redirect("benchmark", made.pk)


@get("benchmarks/", Permission.VIEW)
def benchmarks(request: PersonRequest) -> HttpResponse:
    """All, or with ?server= those of one."""
    found = Benchmark.objects.all()
    names = sorted(set(found.order_by().values_list("server_name", flat=True).distinct()))
    chosen = request.GET.get("server", "")
    if chosen:
        found = found.filter(server_name=chosen)
    shown = {"results": results.list_results(found), "names": names, "chosen": chosen}
    return render(request, "benchmarks/list.html", shown)


@get("benchmarks/history/", Permission.VIEW)
def benchmark_history(request: PersonRequest) -> HttpResponse:
    """Of ?server= or ?profile=, by ?preset= or the check-up with the most results."""
    by = "profile" if "profile" in request.GET else "server"
    key = request.GET.get(by, "")[:80]
    if by == "profile":
        profile = get_object_or_404(Profile.objects.seen_by(request.user), slug=key)
        found, back = (
            Benchmark.objects.filter(version__profile=profile),
            reverse("profile", args=[key]),
        )
    else:
        server = get_object_or_404(Server, slug=key)
        found, back = server.benchmarks.all(), reverse("server_checkup", args=[key])
    of = profile.name if by == "profile" else key
    shown = {"of": of, "by": by, "key": key, "back": back}
    history = describe_history(found, request.GET.get("preset", ""))
    return render(request, "benchmarks/history.html", shown | history)


@get("benchmarks/<int:pk>/", Permission.VIEW)
def benchmark(request: PersonRequest, pk: int) -> HttpResponse:
    """With ?first= and ?speed=, how many people it serves within these limits."""
    limits, fault = _read_limits(request)
    shown = results.describe_result(_find(pk), limits) | {"limits_fault": fault}
    return render(request, "benchmarks/result.html", shown)


def _read_limits(request: PersonRequest) -> tuple[CapacityLimits, str]:
    """The limits, and what is wrong with them: then the usual ones stand in for them."""
    usual = CapacityLimits()
    said = {name: request.GET.get(name, "").strip() for name in ("first", "speed")}
    try:
        limits = CapacityLimits(
            first=_read_limit(said["first"], usual.first, most=600),
            speed=_read_limit(said["speed"], usual.speed, most=100_000),
        )
    except ValueError as error:
        return usual, str(error)
    return limits, ""


def _read_limit(said: str, usual: float, *, most: float) -> float:
    """Raises ValueError, whose text is for people."""
    if not said:
        return usual
    try:
        value = float(said.replace(",", "."))
    except ValueError:
        raise ValueError(f"“{said[:20]}” is no number.") from None
    if not 0 < value <= most:
        raise ValueError(f"A limit lies above 0 and is at most {most:,.0f}.")
    return value


@get("benchmarks/compare/", Permission.VIEW)
def benchmark_compare(request: PersonRequest) -> HttpResponse:
    """With ?of= for each of two to six: the oldest is the first, against which the others stand."""
    chosen = [numbers.whole(each) for each in request.GET.getlist("of")[:LONGEST_CHOICE]]
    found = Benchmark.objects.with_details().filter(pk__in=[each for each in chosen if each])
    several = list(found.order_by("asked_at", "pk")[: results.MOST_COMPARED + 1])
    if not 2 <= len(several) <= results.MOST_COMPARED:
        return render(request, "benchmarks/compare.html", {})
    return render(request, "benchmarks/compare.html", results.describe_comparison(several))


@get("benchmarks/<int:pk>/export/<slug:form>/", Permission.VIEW)
def benchmark_export(request: PersonRequest, pk: int, form: str) -> HttpResponse:
    found = _find(pk)
    if form not in export.FORMS:
        raise Http404(f"A result cannot be exported as {form}.")
    kind = export.FORMS[form]
    name = f"{found.server_name}-{found.preset}-{found.pk}.{kind.suffix}"
    return HttpResponse(
        export.export_text(found, form),
        content_type=f"{kind.content_type}; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


@post("benchmarks/<int:pk>/stop/", Permission.OPERATE)
def benchmark_stop(request: PersonRequest, pk: int) -> HttpResponse:
    if not commands.stop(_find(pk), by=request.user):
        return respond_text("It has ended already.")
    return respond_done()


def _find(pk: int) -> Benchmark:
    return get_object_or_404(Benchmark.objects.with_details(), pk=pk)
