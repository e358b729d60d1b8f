"""Words that stand beside each other in any sentence: in a row they are themselves, and not a name cut in pieces.

Italian "e nel" is not Enel, English "as us" and Spanish "a sus" are not Asus. Of English, Italian, Spanish, French, German
and Portuguese, folded; single letters are what an elision leaves before its apostrophe, or what a list is numbered with.
"""

from __future__ import annotations

_WORDS = """
a ab aber able about act ad add afin after age agli ago ai aid ainda ainsi air al algo all alla alle allo alors als
also alto altri am an anche ancora and ano ans antes any ao aos apres apt aqui arc are arm art as ash asi ask at ate
au auch auf aun aus aussi aux avec aver avere avoir away b bad bag bajo bar bas bay be bed been bei bell bem ben
bene bere bien big bin bis bit boa bon both box boy bus but buy by c ca cada can car casa cat ce cela ces cet che
chez chi ci cioe coll com come comme como con cosi cou could cual cui cut d da dai dal dall dalla dalle dallo dann
das dass day de degli dei del dela dele dell della delle dello dem den depois der des desde deux di dia did die dio
dir dit dix do doch dog donde dont dopo dos dove down dry du due e each ear eat ed egg egli ein eine el ela ele eles
ella elle ellos em en end entre er era eran es esa ese eso essa esse essi esso est esta este et eu euch eux even
ever eye f fa fai fait far fare fat faut faz fee few fim fin fino fit fly foi font for fra from fu fue fui fun fur g
gab gap gar gas get gia gli go god got gran grand grande gun gut h ha had hai han hanno has hasta hat hay he her
here hers hi hier him his ho hot how hoy i ice ich ici if ihm ihn ihr il ill ils im in ink inn ins into io ir is
isso ist it its j ja jam je jede job just k kann kein key kid kin l la las last law lay le led leg lei les less let
leur lhe li lie like lip lo long loro lors los lot low lui m ma made mai mais make mal man many map mar mas max may
me mehr mein meme meno mer mes mesmo met meu mi mia mich mie mine mio mir mis mit mix mob moi molto mon more most
mot much mucho mud muito must muy my n na nach nada nao nas ne near negli nei nel nell nella nem net new next ni
nicht nie no noch noi nom non nor nos nostra not nous now num nun nur nut o ob od oder of off oggi ogni oh ohne oil
old oltre on one only ont or ora oro os osa other otra otro ou our out ove over own p pan par para parte pas pay
pela pelo pen per pero pet peu peut pin piu plus po poco poi por pot pour pu puis put q qu qua qual quali quando
quanto quasi que quel quell quem qui quien r ran rat raw re red rei rid rien rod row run s sa sad sah said sal same
san sans sant sao sara saw say se sea see sehr sei sein seit sem sempre senza ser ses set seu she si sia sido sie
sin sind sit ski sky so sob sobre soi soit sol solo some son sono sont sopra sotto sous sta stata stato su sua such
sue sui sul sull sun suo suoi sur sus t ta tag tal tan tat tax te tea teil tel tem ten tes teu than that the their
them then there these they this those ti tie tiers tip to toda todo toi ton too top tous tout toy tra tras tre tres
try tu tua tue tun tuo tuoi tus tutti tutto two uber um uma un una und under une uno uns up upon us use v va vai van
ver vero vers very vez vi via vida vide vie vin vis voi voir vom von vor vos vous voz vs vu w war was way we weg
weil well wenn wer were what when where which while who why wie will wir wird with wo won x y ya yes yet yo you z zu
zum zur zwei
"""

COMMON_WORDS = frozenset(_WORDS.split())
"""The words, without accents and in lower case."""
