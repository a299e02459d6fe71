"""Pages of check-ups: started on a server's tab, watched, listed, compared, exported."""

from collections.abc import Callable

from django.contrib import messages
from django.forms import Form
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.text import slugify

from servers.contexts import benchmarks as results
from servers.contexts.benchmark_history import describe_history
from servers.forms.benchmarks import CustomForm, ReplayForm
from servers.judge.benchmarks.capacity import CapacityLimits
from servers.judge.benchmarks.cards import UploadError
from servers.launch import numbers
from servers.lifecycle.benchmarks import commands, export, uploads
from servers.lifecycle.benchmarks.commands import BenchmarkRequestError
from servers.lifecycle.benchmarks.plans import list_hours
from servers.lifecycle.benchmarks.subject import refuse
from servers.models import Benchmark, Permission, Profile, Server
from servers.views.access import PersonRequest, get, get_or_post, post
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


@get_or_post("servers/<slug:slug>/check-up/custom/", Permission.EDIT)
def server_checkup_custom(request: PersonRequest, slug: str) -> HttpResponse:
    server = get_object_or_404(Server.objects.with_details(), slug=slug)
    form = CustomForm(request.POST if request.method == "POST" else None)

    def ask() -> Benchmark:
        said = form.cleaned_data
        return commands.ask_custom(
            server, said["points"], by=request.user, gives_way=not said["insists"]
        )

    answers = "Every length of prompts with every number of people, each a point."
    return _plan(request, server, form, ask, title="Custom check-up", answers=answers)


@get_or_post("servers/<slug:slug>/check-up/replay/", Permission.OPERATE)
def server_checkup_replay(request: PersonRequest, slug: str) -> HttpResponse:
    server = get_object_or_404(Server.objects.with_details(), slug=slug)
    form = ReplayForm(
        request.POST if request.method == "POST" else None,
        hours=list_hours(server.slug),
        may_insist=request.user.may_edit,
    )

    def ask() -> Benchmark:
        said = form.cleaned_data
        return commands.ask_replay(
            server,
            said["hour"],
            pace=said["pace"],
            is_random=said["arrivals"] == "random",
            by=request.user,
            gives_way=not said.get("insists", False),
        )

    answers = "How long would people wait, with the requests of one hour once more?"
    return _plan(request, server, form, ask, title="Replay", answers=answers)


def _plan(
    request: PersonRequest, server: Server, form: Form, ask: Callable[[], Benchmark], **shown: str
) -> HttpResponse:
    if form.is_valid():
        try:
            return redirect("benchmark", ask().pk)
        except BenchmarkRequestError as error:
            form.add_error(None, str(error))
    shown["refusal"] = refuse(server.run)
    return render(request, "benchmarks/plan.html", {"server": server, "form": form, **shown})


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
    """With ?of= for each of two to six: an uploaded one, or else the oldest, stands first."""
    chosen = [numbers.whole(each) for each in request.GET.getlist("of")[:LONGEST_CHOICE]]
    found = Benchmark.objects.with_details().filter(pk__in=[each for each in chosen if each])
    several = list(found.order_by("asked_at", "pk")[: results.MOST_COMPARED + 1])
    several.sort(key=lambda each: not each.source)  # own ones stand against one from elsewhere
    if not 2 <= len(several) <= results.MOST_COMPARED:
        return render(request, "benchmarks/compare.html", {})
    return render(request, "benchmarks/compare.html", results.describe_comparison(several))


@get("benchmarks/<int:pk>/export/<slug:form>/", Permission.VIEW)
def benchmark_export(request: PersonRequest, pk: int, form: str) -> HttpResponse:
    found = _find(pk)
    if form not in export.FORMS:
        raise Http404(f"A result cannot be exported as {form}.")
    plot = request.GET.get("plot", "")
    try:
        text = export.export_text(found, form, numbers.whole(plot) if plot else None)
    except ValueError as error:
        raise Http404(str(error)) from error
    kind = export.FORMS[form]
    name = slugify(f"{found.server_name}-{found.preset}-{found.pk}") + f".{kind.suffix}"
    return HttpResponse(
        text,
        content_type=f"{kind.content_type}; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


@post("benchmarks/<int:pk>/stop/", Permission.OPERATE)
def benchmark_stop(request: PersonRequest, pk: int) -> HttpResponse:
    if not commands.stop(_find(pk), by=request.user):
        return respond_text("It has ended already.")
    return respond_done()


@post("benchmarks/upload/", Permission.OPERATE)
def benchmark_upload(request: PersonRequest) -> HttpResponse:
    """A result card, or the JSON of another program, as `file`."""
    given = request.FILES.get("file")
    if given is None:
        messages.error(request, "Choose a file first.")
        return redirect("benchmarks")
    try:
        made = uploads.keep(given.read(uploads.LARGEST + 1), by=request.user)
    except UploadError as error:
        messages.error(request, f"{given.name} was not read. {error}")
        return redirect("benchmarks")
    return redirect("benchmark", made.pk)


@post("benchmarks/<int:pk>/delete/", Permission.OPERATE)
def benchmark_delete(request: PersonRequest, pk: int) -> HttpResponse:
    """Of one that was uploaded."""
    if not uploads.delete(_find(pk), by=request.user):
        return respond_text("It was measured here, and stays.")
    return redirect("benchmarks")


def _find(pk: int) -> Benchmark:
    return get_object_or_404(Benchmark.objects.with_details(), pk=pk)
