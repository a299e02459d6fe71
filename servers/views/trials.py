"""Pages of trials: an upgrade tried with a way back, watched, decided."""

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render

from servers.contexts.trials import describe_trial, plan_trial
from servers.forms.benchmarks import TrialForm
from servers.lifecycle.benchmarks import trials
from servers.lifecycle.benchmarks.subject import refuse
from servers.lifecycle.benchmarks.trials import TrialRequestError
from servers.models import Permission, Server, UpgradeTrial
from servers.views.access import PersonRequest, get, get_or_post, post


@get_or_post("servers/<slug:slug>/try/", Permission.OPERATE)
def server_try(request: PersonRequest, slug: str) -> HttpResponse:
    """What it would cost, and the button that begins it."""
    server = get_object_or_404(Server.objects.with_details(), slug=slug)
    form = TrialForm(request.POST if request.method == "POST" else None)
    if form.is_valid():
        try:
            made = trials.ask(server, by=request.user, **form.cleaned_data)
        except TrialRequestError as error:
            messages.error(request, str(error))
            return redirect("server_checkup", slug)
        return redirect("trial", made.pk)
    run = server.run
    refusal = refuse(run)
    plan = None if refusal or run is None else plan_trial(server, run)
    context = {"server": server, "run": run, "plan": plan, "refusal": refusal, "form": form}
    return render(request, "benchmarks/try.html", context)


@get("trials/<int:pk>/", Permission.VIEW)
def trial(request: PersonRequest, pk: int) -> HttpResponse:
    return render(request, "benchmarks/trial.html", describe_trial(_find(pk)))


@post("trials/<int:pk>/decide/", Permission.OPERATE)
def trial_decide(request: PersonRequest, pk: int) -> HttpResponse:
    """`decision` is keep or back."""
    found = _find(pk)
    decide = trials.keep if request.POST.get("decision") == "keep" else trials.go_back
    try:
        decide(found, by=request.user)
    except TrialRequestError as error:
        messages.error(request, str(error))
    return redirect("trial", found.pk)


def _find(pk: int) -> UpgradeTrial:
    return get_object_or_404(UpgradeTrial.objects.with_details(), pk=pk)
